"""`python grpc_server.py NAME PORT`: calls of gRPC, which say who answers, stream, and fail."""

import sys
from concurrent.futures import ThreadPoolExecutor

import grpc

NAME, PORT = sys.argv[1:]


def says(request: bytes, _context: grpc.ServicerContext) -> bytes:
    """Who answers, and what was asked."""
    return NAME.encode() + b" " + request


def counts(requests, _context: grpc.ServicerContext):
    """As many answers as requests, each as it comes."""
    for number, request in enumerate(requests):
        yield b"%d %s" % (number, request)


def fails(_request: bytes, context: grpc.ServicerContext) -> bytes:
    """Says so in its trailers."""
    context.abort(grpc.StatusCode.NOT_FOUND, "there is none")


CALLS = {
    "Says": grpc.unary_unary_rpc_method_handler(says),
    "Counts": grpc.stream_stream_rpc_method_handler(counts),
    "Fails": grpc.unary_unary_rpc_method_handler(fails),
}

server = grpc.server(ThreadPoolExecutor(8), handlers=[grpc.method_handlers_generic_handler("test.Calls", CALLS)])
server.add_insecure_port(f"127.0.0.1:{PORT}")
server.start()
server.wait_for_termination()
