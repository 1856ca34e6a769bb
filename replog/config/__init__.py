"""Settings under Kafka's property names, checked once where they come in.

| Looking for | File |
|---|---|
| a topic's settings | `topic.py` |
| those of brokers, controllers and clients | `processes.py` |
| what every set of settings promises | `settings.py` |
| names and protocols of listeners | `listeners.py` |
| the notation of `.properties` files and of the command line | `properties.py` |"""
