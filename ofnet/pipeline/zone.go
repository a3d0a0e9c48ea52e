package pipeline

// Zones returns the connection tracker's zones of a VRF's endpoints: that of services, and that of tiers.
func Zones(vrf uint16) [2]uint16 {
	if vrf == SharedVRF {
		return [2]uint16{vrf, tierZone - 1}
	}
	return [2]uint16{vrf, vrf | tierZone}
}
