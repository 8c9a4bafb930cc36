#!/bin/sh
# zombiescope quick audit: the two counts done right, and the units that can loop for ever. Reads only.
# For hosts without Python: plain POSIX sh, awk, find. ROOT=/host looks at a host mounted there.
# Exit status: 0 OK, 1 WARNING, 2 CRITICAL, 3 could not look.
ROOT=${ROOT:-}
# The limits of `zombiescope check`: a number, and counted for each live one from so many zombies on.
WARNING=${WARNING:-1000}
CRITICAL=${CRITICAL:-10000}
RATIO_WARNING=${RATIO_WARNING:-5}
RATIO_LEAST=${RATIO_LEAST:-200}
RATIO_CRITICAL=${RATIO_CRITICAL:-50}
RATIO_CRITICAL_LEAST=${RATIO_CRITICAL_LEAST:-5000}
# Live memory cgroups that this host is meant to have (0: not known), and how many times as many counted are a warning.
EXPECTED_LIVE=${EXPECTED_LIVE:-0}
EXPECTED_MULTIPLE=${EXPECTED_MULTIPLE:-3}
export LC_ALL=C

memory_v1_mount() { # where the v1 memory controller is mounted, if it is
    awk '$0 ~ / - cgroup / { n = split($NF, options, ","); for (i = 1; i <= n; i++) if (options[i] == "memory") { print $5; exit } }' \
        "$ROOT/proc/self/mountinfo" 2>/dev/null || :
}

v2_mount() {
    awk '$0 ~ / - cgroup2 / { print $5; exit }' "$ROOT/proc/self/mountinfo" 2>/dev/null || :
}

look() { # prints: zombies live source
    mount=$(memory_v1_mount)
    if [ -n "$mount" ]; then
        # /proc/cgroups counts live and dying; a zombie has no directory.
        counted=$(awk '$1 == "memory" { print $3 }' "$ROOT/proc/cgroups" 2>/dev/null)
        live=$(find "$ROOT$mount" -type d 2>/dev/null | wc -l)
        [ -n "$counted" ] && [ "$live" -gt 0 ] && echo "$((counted - live)) $live /proc/cgroups"
        return
    fi
    mount=$(v2_mount)
    [ -n "$mount" ] || return
    # The kernel counts them itself: newer kernels by controller, older ones all together.
    awk '$1 == "nr_dying_subsys_memory" { exact = $2; found = 1 } $1 == "nr_dying_descendants" { all = $2; seen = 1 }
         $1 == "nr_descendants" { live = $2 + 1 } $1 == "nr_subsys_memory" { mine = $2 }
         END { if (found) print exact, mine ? mine : live, "nr_dying_subsys_memory"
               else if (seen) print all, live, "nr_dying_descendants" }' \
        "$ROOT$mount/cgroup.stat" 2>/dev/null
}

status=0
first=$(look)
sleep "${PAUSE:-1}" # an ordinary death is over within a second: look twice, take the lower
second=$(look)
if [ -z "$first" ] || [ -z "$second" ]; then
    echo "UNKNOWN zombies: the memory cgroups cannot be counted here"
    status=3
else
    zombies=${first%% *}
    [ "${second%% *}" -lt "$zombies" ] && zombies=${second%% *}
    rest=${second#* }
    live=${rest%% *}
    word=OK
    [ "$zombies" -ge "$WARNING" ] && word=WARNING && status=1
    [ "$zombies" -ge "$RATIO_LEAST" ] && [ $((zombies + live)) -ge $((RATIO_WARNING * live)) ] && word=WARNING && status=1
    [ "$EXPECTED_LIVE" -gt 0 ] && [ "$zombies" -ge "$EXPECTED_LIVE" ] &&
        [ $((zombies + live)) -ge $((EXPECTED_MULTIPLE * EXPECTED_LIVE)) ] && word=WARNING && status=1
    [ "$zombies" -ge "$CRITICAL" ] && word=CRITICAL && status=2
    [ "$zombies" -ge "$RATIO_CRITICAL_LEAST" ] && [ $((zombies + live)) -ge $((RATIO_CRITICAL * live)) ] && word=CRITICAL && status=2
    echo "$word zombies: $zombies beside $live live (source: ${rest#* })"
fi

has() { [ -e "$ROOT$1" ]; }
says() { grep -Eq -- "$2" "$ROOT$1" 2>/dev/null; }
starts() { # a unit, by name or pattern, that `enable` or its vendor linked
    for folder in /etc/systemd/system /usr/lib/systemd/system /lib/systemd/system; do
        for found in "$ROOT$folder"/*.wants/$1 "$ROOT$folder"/*.requires/$1; do [ -L "$found" ] && return 0; done
    done
    return 1
}
installed() {
    for folder in /etc/systemd/system /usr/lib/systemd/system /lib/systemd/system; do
        for found in "$ROOT$folder"/$1; do { [ -e "$found" ] || [ -L "$found" ]; } && return 0; done
    done
    return 1
}
# The agents of the knowledge base: which of them a host needs, as far as files tell.
# @known@

# Units that are enabled, restart, and whose restarts come too slowly for the start limit (5 starts in 10 s) to trip. One that is
# known to be needed is left out, one that nothing needs is critical, and of all others nobody can say: a warning, as
# `zombiescope check` gives it.
loops() { # file drop-ins ...: how it can be restarted for ever, if it can
    cat "$@" 2>/dev/null |
        awk -F= '
            function seconds(text, value) {
                value = text + 0
                if (text ~ /ms/) return value / 1000
                if (text ~ /min/ || text ~ /[0-9]m$/) return value * 60
                if (text ~ /h/) return value * 3600
                return value
            }
            { gsub(/[ \t\r]/, "") }
            $1 == "Restart" { policy = $2 }
            $1 == "RestartSec" { delay = seconds($2); said = 1 }
            $1 == "StartLimitIntervalSec" || $1 == "StartLimitInterval" { interval = seconds($2); limited = 1 }
            $1 == "StartLimitBurst" { burst = $2 + 0; counted = 1 }
            END {
                if (policy != "always" && policy != "on-failure") exit
                if (!said) delay = 0.1
                if (!limited) interval = 10
                if (!counted) burst = 5
                if (interval == 0 || burst == 0 || burst * delay >= interval)
                    printf "Restart=%s, %s s apart, limit %s in %s s\n", policy, delay, burst, interval
            }'
}
notes=$(for place in /etc/systemd/system /usr/lib/systemd/system /lib/systemd/system; do
    for link in "$ROOT/etc/systemd/system"/*.wants/*.service; do
        unit=${link##*/}
        file=$ROOT$place/$unit
        [ -f "$file" ] && [ -s "$file" ] || continue
        [ "$place" = /etc/systemd/system ] || [ ! -e "$ROOT/etc/systemd/system/$unit" ] || continue
        [ "$place" != /lib/systemd/system ] || [ ! -e "$ROOT/usr/lib/systemd/system/$unit" ] || continue
        vendor=vendor
        [ "$place" != /etc/systemd/system ] || vendor=local
        known "$unit" "$vendor"
        how=$(loops "$file" "$ROOT$place/$unit.d"/*.conf "$ROOT/etc/systemd/system/$unit.d"/*.conf)
        case $need in
        needed) ;;
        unneeded)
            if [ -n "$how" ]; then
                printf 'CRITICAL %s is not needed and can be restarted for ever: %s; %s\n' "$unit" "$how" "$why"
            else
                printf 'WARNING %s is not needed: %s\n' "$unit" "$why"
            fi
            ;;
        *)
            [ -z "$how" ] || printf 'WARNING %s can be restarted for ever: %s; is it needed? %s\n' "$unit" "$how" "$why"
            ;;
        esac
    done
done | sort -u)
if [ -n "$notes" ]; then
    printf '%s\n' "$notes"
    case $notes in *CRITICAL\ *) status=2 ;; esac
    [ "$status" -eq 2 ] || status=1
fi
exit "$status"
