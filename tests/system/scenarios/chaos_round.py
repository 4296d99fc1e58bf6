"""A round of random faults on workers, endpoints and a Kafka of three brokers: every promise is kept (`scripts/chaos` runs many)."""

import os
import random

import chaos

LIMIT_SECONDS = 200
OWN_BROKER = chaos.BROKERS


def run(test):
    seed = int(os.environ.get("POSTHORN_CHAOS_SEED") or random.SystemRandom().randrange(10**6))
    chaos.Round(seed, seconds=9).run(test)
