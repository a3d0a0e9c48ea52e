package pipeline

// Zones are the zones of the connection tracker in which connections of a VRF's endpoints
// are: those to services, and those that tiers judge.
func Zones(vrf uint16) [2]uint16 {
	if vrf == SharedVRF {
		return [2]uint16{vrf, tierZone - 1}
	}
	return [2]uint16{vrf, vrf | tierZone}
}
