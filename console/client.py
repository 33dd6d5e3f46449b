"""One live agent: numbered calls with answers, and streams of events, over one channel."""
