package hostaccess

import (
	"encoding/binary"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// generation returns the generation of the nftables ruleset, which every change by any process increments; 0:
// unknown. Elements that packets add to sets do not count. It costs two system calls; a listing starts nft(8) for
// each set.
func generation() uint32 {
	const tables = unix.NFNL_SUBSYS_NFTABLES << 8
	request, family := nl.NewNetlinkRequest(tables|unix.NFT_MSG_GETGEN, 0), &nl.Nfgenmsg{}
	request.AddData(family)
	answers, err := request.Execute(unix.NETLINK_NETFILTER, tables|unix.NFT_MSG_NEWGEN)
	if err != nil || len(answers) == 0 || len(answers[0]) < family.Len() {
		return 0
	}
	attributes, err := nl.ParseRouteAttrAsMap(answers[0][family.Len():])
	if value := attributes[unix.NFTA_GEN_ID].Value; err == nil && len(value) == 4 {
		return binary.BigEndian.Uint32(value)
	}
	return 0
}
