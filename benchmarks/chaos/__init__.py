"""What breaks, and what it costs: chaos on one machine and over a network, throughput, and hours of load in minutes."""
