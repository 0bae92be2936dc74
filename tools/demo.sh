#!/usr/bin/env bash
# Shows a cloud, an edge behind it, three pumps and an application at work for some seconds, and leaves nothing running.
#   tools/demo.sh PROGRAM DIRECTORY
# DIRECTORY, which is made anew, is relative to where this is run: the path of a socket must not be long.
set -euo pipefail
program=$1 data=$2
cloud=$data/cloud edge=$data/edge said=$data/up.log

# free_port PORT: that one, or the next that nothing listens at here.
free_port() {
    local port=$1
    while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 1)); done
    echo "$port"
}

# shows WORDS ...: a command as a person types it, and what it prints.
shows() {
    printf '\n$ %s\n' "${*@Q}" | sed -E "s/'([A-Za-z0-9_.\/-]+)'/\1/g"
    "$@"
}

# reported PATTERN: waits until pump-1 reports this, for 10 s at most.
reported() {
    for _ in {1..50}; do
        if "$program" twin get pump-1 --data "$cloud" | tr -d '\n' | grep -q "\"reported\".*$1"; then return; fi
        sleep 0.2
    done
    echo "demo: pump-1 did not report $1 within 10 s" >&2
    exit 1
}

# Readings that come into the cloud for 3 s: what is said at its control socket, a line each.
readings() {
    local live=http://cloud/v1/tenants/default/telemetry/live
    { curl -sN --max-time 3 --unix-socket "$cloud/control.sock" "$live?stream=celsius" || [ $? = 28 ]; } | # It ended in time.
        sed -nE 's/^data: .*"device":"([^"]*)".*"value":([^,]*),.*"edge":"([^"]*)".*"sequence":([0-9]*).*/\1   \2 °C   message \4 of \3/p'
}

stop() {
    kill "$up" 2>/dev/null || true
    wait "$up"
}

rm -rf "$data"
mkdir -p "$data"
echo 'Starting a cloud, an edge that joins it, three pumps and an application (selvedge up) …'
: >"$said"
"$program" up --data "$data" --mqtt "$(free_port 18830)" --cloud-mqtt "$(free_port 18930)" \
    --http "$(free_port 18080)" >"$said" 2>&1 &
up=$!
trap 'stop >/dev/null 2>&1 || true' EXIT
until grep -q '^Stop with' "$said"; do
    if ! kill -0 "$up" 2>/dev/null; then
        cat "$said" >&2
        echo 'demo: selvedge up did not come up; what it said is above' >&2
        exit 1
    fi
    sleep 0.05
done
sed '/^Try:/,$d' "$said"

printf '\nReadings go from the pumps through the edge into the database of the cloud:\n\n'
readings
printf '\nSomebody in the cloud calls a method of a pump behind the edge, which answers:\n'
shows "$program" call pump-1 blink '{"times": 3}' --data "$cloud"
printf '\nSomebody in the cloud desires another interval; the pump hears of it and reports it:\n'
shows "$program" twin set pump-1 '{"interval_s": 0.5}' --data "$cloud"
reported '"interval_s": 0.5'
shows "$program" twin get pump-1 --data "$cloud"
printf '\nWhat became of every message, at the edge and at the cloud:\n'
shows "$program" get link --data "$edge"
shows "$program" get edges --data "$cloud"

trap - EXIT
stop
printf '\nStopped; nothing of it runs any more. To have it for yourself: %s up\n\n' "$program"
