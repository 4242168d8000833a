"""When does a pull that found nothing return? Holds it until a message comes, or its time is up.

Source: RocketMQ `PullRequestHoldService`, `NotifyMessageArrivingListener`. A broker is told of
arrivals by its own dispatch. Here another process dispatches, so the files are looked at.
"""
