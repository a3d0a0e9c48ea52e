package mastercfg

import (
	"bytes"
	"encoding/json"
	"maps"
)

// The address map of a /16 is 11 KiB of text in a record that is otherwise half
// a kilobyte, and every endpoint created reads and writes it. encoding/json
// would walk that text four times per direction, one byte after the other, and
// cost more than everything else such a request does. Records with a map are
// therefore coded in two parts: the map by itself, the rest with an empty map.
// The result is the same, byte by byte.

// Decode reads the record from its JSON.
func (n *CfgNetworkState) Decode(data []byte) error {
	return decode(data, n, `"ipAllocMap":"`, &n.IPAllocMap)
}

// Encode writes the record as JSON.
func (n *CfgNetworkState) Encode() ([]byte, error) {
	rest := *n
	rest.IPAllocMap = Bitmap{}
	return encode(rest, `"ipAllocMap":"`, n.IPAllocMap)
}

// Decode reads the record from its JSON.
func (g *EndpointGroupState) Decode(data []byte) error {
	return decode(data, g, `"epgIpAllocMap":"`, &g.EPGIPAllocMap)
}

// Encode writes the record as JSON.
func (g *EndpointGroupState) Encode() ([]byte, error) {
	rest := *g
	rest.EPGIPAllocMap = Bitmap{}
	return encode(rest, `"epgIpAllocMap":"`, g.EPGIPAllocMap)
}

// Clone returns a copy that shares no map.
func (n *CfgNetworkState) Clone() CfgNetworkState {
	c := *n
	c.IPAllocMap, c.IPv6AllocMap = n.IPAllocMap.copied(), maps.Clone(n.IPv6AllocMap)
	return c
}

// Clone returns a copy that shares no map.
func (g *EndpointGroupState) Clone() EndpointGroupState {
	c := *g
	c.EPGIPAllocMap = g.EPGIPAllocMap.copied()
	return c
}

// placeholder stands for the map that was cut out: one bit, which no subnet has.
const placeholder = "AAAAAAAAAAEAAAAAAAAAAQ=="

// decode cuts the map out. Whatever is unusual about the value (spaces, escapes,
// repeated members, no map, no JSON at all) is left to encoding/json to judge.
// The member cannot be found inside a string, where its quotes would be escaped.
func decode[T any](data []byte, into *T, member string, bits *Bitmap) error {
	begin := bytes.Index(data, []byte(member)) + len(member)
	if begin < len(member) || bytes.Contains(data[begin:], []byte(member)) {
		return json.Unmarshal(data, into)
	}
	length := bytes.IndexByte(data[begin:], '"')
	var cut Bitmap
	if length < 0 || cut.UnmarshalText(data[begin:begin+length]) != nil {
		return json.Unmarshal(data, into)
	}
	rest := make([]byte, 0, len(data)-length+len(placeholder))
	rest = append(append(append(rest, data[:begin]...), placeholder...), data[begin+length:]...)
	if err := json.Unmarshal(rest, into); err != nil || bits.Len() != 1 {
		var none T
		*into = none
		return json.Unmarshal(data, into)
	}
	*bits = cut
	return nil
}

// encode puts the map in.
func encode(rest any, member string, bits Bitmap) ([]byte, error) {
	data, err := json.Marshal(rest)
	if err != nil {
		return nil, err
	}
	begin := bytes.Index(data, []byte(member)) + len(member)
	end := begin + bytes.IndexByte(data[begin:], '"')
	out := make([]byte, 0, len(data)+len(bits.Words())*11+16)
	out = bits.appendText(append(out, data[:begin]...))
	return append(out, data[end:]...), nil
}
