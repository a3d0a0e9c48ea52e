package openflow

import (
	"fmt"
	"net/netip"
	"strings"
)

// actionList prints actions as ovs-ofctl does.
func actionList(list []Action) string {
	if len(list) == 0 {
		return "drop"
	}
	return joinActions(list)
}

func joinActions(list []Action) string {
	parts := make([]string, len(list))
	for i, a := range list {
		parts[i] = fmt.Sprint(a)
	}
	return strings.Join(parts, ",")
}

// call prints name(arg,arg), leaving empty arguments out.
func call(name string, args ...string) string {
	kept := make([]string, 0, len(args))
	for _, a := range args {
		if a != "" {
			kept = append(kept, a)
		}
	}
	return name + "(" + strings.Join(kept, ",") + ")"
}

// option returns the printed argument, or "" if it is not given.
func option(given bool, format string, args ...any) string {
	if !given {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// String prints the range as ovs-ofctl does: NXM_NX_REG0[], NXM_NX_REG0[0..15].
func (s Subfield) String() string {
	label := s.Field.info().nxm
	switch {
	case s == Whole(s.Field):
		return label + "[]"
	case s.Bits == 1:
		return fmt.Sprintf("%s[%d]", label, s.Ofs)
	default:
		return fmt.Sprintf("%s[%d..%d]", label, s.Ofs, int(s.Ofs)+int(s.Bits)-1)
	}
}

func (a Output) String() string {
	switch {
	case a.Port == PortController:
		return fmt.Sprintf("CONTROLLER:%d", a.MaxLen)
	case portNames[a.Port] != "":
		return portNames[a.Port]
	default:
		return fmt.Sprintf("output:%d", a.Port)
	}
}

func (a SetField) String() string {
	return fmt.Sprintf("set_field:%s->%s", settingText(a.FieldMatch), a.Field)
}

// settingText prints a value to set. Unlike values to match, numbers keep their 0x prefix, and flags
// are printed as a number.
func settingText(fm FieldMatch) string {
	width := fm.Field.Bits()
	switch fm.Field {
	case FieldCTState, FieldTCPFlags, FieldIPv6Label:
		return hexadecimal(fm.Value, fm.Mask, width)
	case FieldCTZone:
		return masked(fm.Value, fm.Mask, width, func(v Value) string { return fmt.Sprintf("%#x", v.Lo) })
	}
	return fm.Field.info().print(fm.Value, fm.Mask, width)
}

func (a Load) String() string {
	return fmt.Sprintf("load:%s->%s", hex(number(a.Value)), Subfield{a.Field, a.Ofs, a.Bits})
}

func (a Move) String() string {
	return fmt.Sprintf("move:%s->%s", Subfield{a.Src, a.SrcOfs, a.Bits}, Subfield{a.Dst, a.DstOfs, a.Bits})
}

func (a PushVLAN) String() string {
	if a.TPID == 0 {
		a.TPID = EthTypeVLAN
	}
	return fmt.Sprintf("push_vlan:%#04x", a.TPID)
}

func (a OutputReg) String() string   { return "output:" + a.Src.String() }
func (a OutputGroup) String() string { return fmt.Sprintf("group:%d", a.ID) }
func (PopVLAN) String() string       { return "pop_vlan" }
func (a SetQueue) String() string    { return fmt.Sprintf("set_queue:%d", a.ID) }
func (a SetTTL) String() string      { return fmt.Sprintf("mod_nw_ttl:%d", a.TTL) }
func (CTClear) String() string       { return "ct_clear" }
func (a Clone) String() string       { return "clone(" + joinActions(a.Actions) + ")" }

func (a CheckLarger) String() string {
	return fmt.Sprintf("check_pkt_larger(%d)->%s", a.Size, a.Dst)
}

func (a DecTTL) String() string {
	if len(a.Controllers) == 0 {
		return "dec_ttl"
	}
	ids := make([]string, len(a.Controllers))
	for i, id := range a.Controllers {
		ids[i] = fmt.Sprint(id)
	}
	return call("dec_ttl", ids...)
}

func (a Resubmit) String() string {
	port, table := "", ""
	if a.Port != 0 && a.Port != resubmitInPort {
		port = fmt.Sprint(a.Port)
	}
	if a.Table != allTables {
		table = fmt.Sprint(a.Table)
	}
	if a.CT {
		table += ",ct"
	}
	if table == "" {
		return "resubmit:" + port
	}
	return "resubmit(" + port + "," + table + ")"
}

func (a Conjunction) String() string {
	return fmt.Sprintf("conjunction(%d,%d/%d)", a.ID, a.Clause, a.Clauses)
}

// algNames are the helpers that have a name.
var algNames = map[uint16]string{21: "ftp", 69: "tftp"}

func (a CT) String() string {
	args := []string{
		option(a.Commit, "commit"),
		option(a.Force, "force"),
		option(a.Recirculate, "table=%d", a.Table),
	}
	if a.ZoneField != (Subfield{}) {
		args = append(args, "zone="+a.ZoneField.String())
	} else {
		args = append(args, option(a.Zone != 0, "zone=%d", a.Zone))
	}
	inside := a.Actions
	if len(inside) > 0 {
		if nat, ok := inside[0].(NAT); ok {
			args, inside = append(args, nat.String()), inside[1:]
		}
	}
	args = append(args, option(len(inside) > 0, "exec(%s)", joinActions(inside)))
	if alg, ok := algNames[a.ALG]; ok {
		return call("ct", append(args, "alg="+alg)...)
	}
	return call("ct", append(args, option(a.ALG != 0, "alg=%d", a.ALG))...)
}

func (a NAT) String() string {
	if a.Kind == NATExisting {
		return "nat"
	}
	target := "src"
	if a.Kind == NATDestination {
		target = "dst"
	}
	if r := a.addressRange() + a.portRange(); r != "" {
		target += "=" + r
	}
	return call("nat", target, option(a.Persistent, "persistent"), option(a.Hash, "hash"), option(a.Random, "random"))
}

func (a NAT) addressRange() string {
	if !a.MinIP.IsValid() {
		return ""
	}
	bracket := func(ip netip.Addr) string {
		if ip.Is6() && a.MinPort != 0 {
			return "[" + ip.String() + "]"
		}
		return ip.String()
	}
	return bracket(a.MinIP) + option(a.MaxIP.IsValid(), "-%s", bracket(a.MaxIP))
}

func (a NAT) portRange() string {
	return option(a.MinPort != 0, ":%d", a.MinPort) + option(a.MaxPort != 0, "-%d", a.MaxPort)
}

// reasonNames are the names of the reasons of packet-ins.
var reasonNames = []string{"no_match", "action", "invalid_ttl"}

func (a Controller) String() string {
	if a.Reason == ReasonAction && a.ControllerID == 0 && len(a.UserData) == 0 && !a.Pause && a.Meter == 0 {
		return fmt.Sprintf("CONTROLLER:%d", a.MaxLen)
	}
	data := make([]string, len(a.UserData))
	for i, b := range a.UserData {
		data[i] = fmt.Sprintf("%02x", b)
	}
	return call("controller",
		option(a.Reason != ReasonAction, "reason=%s", name(a.Reason, reasonNames)),
		option(a.MaxLen != NoBuffer, "max_len=%d", a.MaxLen),
		option(a.ControllerID != 0, "id=%d", a.ControllerID),
		option(len(data) > 0, "userdata=%s", strings.Join(data, ".")),
		option(a.Pause, "pause"),
		option(a.Meter != 0, "meter_id=%d", a.Meter))
}

var (
	hashNames = []string{"eth_src", "symmetric_l4", "symmetric_l3l4", "symmetric_l3l4+udp", "nw_src", "nw_dst", "symmetric_l3"}
	pathNames = []string{"modulo_n", "hash_threshold", "hrw", "iter_hash"}
)

func (a Multipath) String() string {
	return fmt.Sprintf("multipath(%s,%d,%s,%d,%d,%s)", name(a.Fields, hashNames), a.Basis,
		name(a.Algorithm, pathNames), a.Links, a.Arg, a.Dst)
}
