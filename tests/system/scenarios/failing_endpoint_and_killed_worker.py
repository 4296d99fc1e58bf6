"""The failing endpoint again, with a worker killed (SIGKILL) in the middle and restarted: nothing is lost."""

import checks
import failing_endpoint

LIMIT_SECONDS = 200
# What was finished but not yet stored when the worker was killed may be sent again: a commit each second, one worker's part of the rate.
UNSTORED_AT_MOST = 2 * 600


def run(test):
    def kill_and_restart():
        victim = test.workers[1]
        victim.kill()
        test.say(f"{victim.instance} is killed")
        test.workers.remove(victim)
        test.worker(victim.instance).await_ready()
        test.say(f"{victim.instance} is back")

    _, sink, produced, letters = failing_endpoint.run_with(test, kill_and_restart)
    checks.everything_finished(produced, sink.requests(), letters)
    finished = len([request for request in sink.requests() if request.ok]) + len(letters)
    again = finished - len(produced)
    test.say(f"{again} finished more than once, for the kill")
    checks.require(again <= UNSTORED_AT_MOST, f"{again} messages finished again after one kill; {UNSTORED_AT_MOST} could be unstored")
    test.none_has_ended()
