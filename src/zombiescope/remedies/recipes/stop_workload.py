# SPDX-License-Identifier: Apache-2.0
"""Done by hand: a workload of the cluster whose containers are restarted now, or whose pods leave zombies; and a container that
Docker restarts. Scaled down, suspended, or put back to what ran before; what goes with its pods is foretold. Printed, never done:
a cluster is changed by its people."""

from collections.abc import Iterator
from shlex import quote

from zombiescope.facts.pods import (
    CRON_JOB,
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    POD,
    PREFIX,
    STATEFUL_SET,
    STATIC_POD,
    Pod,
    PodLoop,
    WorkloadName,
    workload_of,
)
from zombiescope.remedies.choice import Draft, Situation
from zombiescope.remedies.plan import AskHuman, Risk, Undo

_NOWHERE = '{"spec":{"template":{"spec":{"nodeSelector":{"zombiescope/stopped":"true"}}}}}'
_MANIFESTS = "/etc/kubernetes/manifests"


def stop_workload(situation: Situation) -> Iterator[Draft]:
    loops: dict[str, list[PodLoop]] = {}
    for loop in situation.activity.pods.loops if situation.activity.pods else ():
        loops.setdefault(loop.maker, []).append(loop)
    growing = [maker for maker, _ in situation.activity.growing if maker.startswith(PREFIX)]
    looping = sorted(loops, key=lambda maker: -situation.left.get(maker, 0))
    for maker in list(dict.fromkeys((*growing, *looping)))[:3]:
        workload = workload_of(maker)
        if workload:
            yield _draft(situation, maker, workload, loops.get(maker, []))


def _draft(situation: Situation, maker: str, workload: WorkloadName, loops: list[PodLoop]) -> Draft:
    seen = situation.activity.pods
    pods = [pod for pod in seen.pods if pod.maker == maker] if seen else []
    title, commands = _advice(workload, loops, pods)
    return Draft(
        f"stop-workload:{maker.removeprefix(PREFIX)}",
        f"{title}, before anything of it is freed",
        AskHuman((*_check_first(pods), *commands, *_keep_away(situation))),
        _why(workload, loops),
        "looping-container" if loops else "zombie-growth",
        f"{_kubectl(workload.namespace)} get pods, then zombiescope scan",
        Risk.MEDIUM,
        Undo.NONE,
        maker=maker,
        pods=frozenset(pod.uid for pod in pods),
    )


def _why(workload: WorkloadName, loops: list[PodLoop]) -> str:
    if not loops:
        return f"{workload.called} left more zombies while we looked: what is freed before it stops comes back"
    first = loops[0]
    more = f" and {len(loops) - 1:,} more containers of it" if len(loops) > 1 else ""
    return f"container {first.container} of {first.pod}{more}: {first.why}; what is freed before it stops comes back"


def _check_first(pods: list[Pod]) -> tuple[str, ...]:
    """A name is a pattern, and patterns can be imitated: whoever types the rest looks first."""
    if not pods or not pods[0].owner.is_guess:
        return ()
    name = f"{_kubectl(pods[0].namespace)} get pod {_word(pods[0].name, 'POD')}"
    form = "-o jsonpath='{.metadata.ownerReferences[*].kind}/{.metadata.ownerReferences[*].name}'"
    return (f"{name} {form}   # the owner is guessed from the pod's name: is it right?",)


def _keep_away(situation: Situation) -> tuple[str, ...]:
    node = situation.activity.pods.node if situation.activity.pods else ""
    name = _word(node, "NODE") if node else "NODE"
    return (
        f"kubectl cordon {name}   # if nothing new should be placed here meanwhile",
        f"kubectl drain {name} --ignore-daemonsets --delete-emptydir-data   # if the node is to be emptied",
    )


def _word(name: str, otherwise: str) -> str:
    """Quoted. No cluster allows a name that begins with a dash, and kubectl would take it for an option."""
    return otherwise if name.startswith("-") else quote(name)


def _kubectl(namespace: str) -> str:
    return f"kubectl -n {_word(namespace, 'NAMESPACE')}"


def _target(workload: WorkloadName) -> str:
    return _word(f"{workload.kind.lower()}/{workload.name}", "KIND/NAME")


def _advice(workload: WorkloadName, loops: list[PodLoop], pods: list[Pod]) -> tuple[str, tuple[str, ...]]:
    kind, called = workload.kind, workload.called
    kubectl, target = _kubectl(workload.namespace), _target(workload)
    if kind == CRON_JOB:
        suspend = f'{kubectl} patch {target} -p \'{{"spec":{{"suspend":true}}}}\''
        jobs = dict.fromkeys(pod.name.rpartition("-")[0] for pod in pods)
        ends = tuple(f"{kubectl} delete job {_word(job, 'JOB')}   # ends its pods" for job in list(jobs)[:3])
        return f"suspend {called}", (suspend, *ends, _fix(workload, loops))
    if kind == STATIC_POD:
        find = f"grep -l {quote(f'name: {workload.name}')} {_MANIFESTS}/*   # on this node: kubelet's staticPodPath"
        file = "NAME" if "/" in workload.name else quote(workload.name)
        move = f"mv {_MANIFESTS}/{file}.yaml /root/   # kubelet ends it; moved back, it starts again"
        return f"stop {called}", (find, move)
    back = f"{kubectl} rollout undo {target}   # if it began with the last rollout"
    if kind == DAEMON_SET:
        stop = f"{kubectl} patch {target} -p '{_NOWHERE}'   # no node has that label: its pods end"
        return f"stop {called}", (stop, back, _fix(workload, loops))
    if kind in (DEPLOYMENT, STATEFUL_SET, "ReplicaSet", "ReplicationController"):
        scale = f"{kubectl} scale {target} --replicas=0"
        rolled_back = (back,) if kind in (DEPLOYMENT, STATEFUL_SET) else ()
        return f"scale {called} down to 0", (scale, *rolled_back, _fix(workload, loops))
    if kind in (JOB, POD):
        return f"delete {called}", (f"{kubectl} delete {target}   # its pods end, and nothing makes them anew",)
    return f"stop {called}", (f"{kubectl} get {target}   # stop it by whatever manages it",)


def _fix(workload: WorkloadName, loops: list[PodLoop]) -> str:
    """The way that lasts: another image, or another command."""
    container = _word(loops[0].container, "CONTAINER") if loops else "CONTAINER"
    where = f"{_kubectl(workload.namespace)} set image {_target(workload)}"
    return f"{where} {container}=IMAGE   # with an image that does not crash"


def stop_container(situation: Situation) -> Iterator[Draft]:
    """A container that Docker restarts over and over is kept from starting again, and stopped."""
    for loop in [loop for loop in situation.loops if loop.kind == "container"][:3]:
        name = _word(loop.name, "CONTAINER")
        yield Draft(
            f"stop-container:{loop.name}",
            f"stop the container {loop.name}, which Docker restarts over and over",
            AskHuman((f"docker update --restart=no {name}", f"docker stop {name}", f"docker logs --tail 20 {name}")),
            loop.why,
            "looping-container",
            f"docker inspect --format '{{{{.State.Status}}}}' {name}",
            Risk.MEDIUM,
            Undo.NONE,
        )
