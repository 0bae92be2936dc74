# A throwaway PostgreSQL cluster in $1, with the programs of $2, driven by lines on stdin, each answered by one. Ends, and
# removes the directory, when stdin does: also when the test is killed.
dir=$1 bin=$2
as() {
    if [ "$(id -u)" = 0 ]; then setpriv --reuid postgres --regid postgres --init-groups -- "$@"; else "$@"; fi
}
ctl() {
    as "$bin/pg_ctl" -D "$dir/data" -l "$dir/log" "$@" </dev/null >/dev/null 2>&1
}
start() {
    # What was killed may take a moment to give its memory back.
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        ctl -w -o "-k $dir -c listen_addresses= -c max_connections=300 $1" start && return
        sleep 0.5
    done
    return 1
}
signal() {
    postmaster=$(head -n 1 "$dir/data/postmaster.pid")
    children=$(pgrep -P "$postmaster")
    kill "-$1" "$postmaster" || return
    # Those that came meanwhile, too; one that has ended needs none.
    for child in $children $(pgrep -P "$postmaster"); do
        kill "-$1" "$child" 2>/dev/null
    done
    return 0
}
[ "$(id -u)" != 0 ] || chown postgres "$dir"
as "$bin/initdb" -D "$dir/data" -A trust -U postgres -E UTF8 --locale C --no-sync >"$dir/initdb" 2>&1
while read -r order options; do
    case $order in
        start) start "$options" ;;
        stop) ctl -m fast -w stop ;;
        kill) signal KILL ;;
        pause) signal STOP ;;
        resume) signal CONT ;;
    esac && echo "done" || echo failed
done
signal CONT 2>/dev/null
ctl -m immediate -w stop
rm -rf "$dir"
