package pipeline

// The numbers of meters. OpenFlow ports end below 1<<16; the kernel has meters up to 200,000 only.
//
//	port                    requests of the port to the switch (answer.go)
//	meterSent + port        what the port sends (limit.go)
//	meterReceived + port    what it receives (limit.go)
//	meterOfAll              requests of all endpoints to the switch (answer.go)
//	meterPackets + class    packets of a class to the agent (packet.go); no class is 0
//	meterNames, ...         queries to the name server, flooded packets, copied DNS answers, slowed ports
const (
	meterSent     = 1 << 16
	meterReceived = 2 << 16
	meterPackets  = 3 << 16
	meterOfAll    = meterPackets

	meterNames     = meterPackets + 1<<8
	meterFlooded   = meterNames + sharedMeters
	meterOverheard = meterFlooded + sharedMeters
	meterSlowed    = meterOverheard + sharedMeters
)

// From meterNames on there are fewer meters than port numbers: ports whose numbers differ by a multiple of these share
// one. Few ports are slowed at a time.
const (
	sharedMeters = 1024
	slowedMeters = 32
)

// LastMeter is the largest number of a meter.
const LastMeter = meterSlowed + slowedMeters - 1

func questionMeter(port uint32) uint32  { return meterNames + MetersOf(port) }
func floodedMeter(port uint32) uint32   { return meterFlooded + MetersOf(port) }
func overheardMeter(port uint32) uint32 { return meterOverheard + MetersOf(port) }
func slowedMeter(port uint32) uint32    { return meterSlowed + port%slowedMeters }

// MetersOf returns which of the shared meters a port has; ports with the same result share theirs.
func MetersOf(port uint32) uint32 { return port % sharedMeters }
