package contivmodel

import (
	"net/netip"
	"regexp"
	"strings"
)

// Building blocks of the patterns.
const (
	octet  = `(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])`
	ip4    = octet + `(\.` + octet + `){3}`
	length = `(3[0-1]|2[0-9]|1[0-9]|[1-9])` // 1..31
	label  = `([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9\-]*[a-zA-Z0-9])`
	name   = `(` + label + `\.)*` + label
	wide   = `[a-zA-Z0-9_]([a-zA-Z0-9_\-]*[a-zA-Z0-9_])?` // a label that may have underscores
	hex    = `[0-9a-fA-F]{1,4}`
	ip6    = `((` + hex + `(:` + hex + `){7})|((` + hex + `:){0,6}|:)((:` + hex + `){0,6}|:))`
	len6   = `(12[0-7]|1[01][0-9]|[1-9][0-9]|[1-9])` // 1..127
	path   = `topology/pod-[0-9]{1,4}/paths-[0-9]{1,4}/pathep-\[eth[0-9]{1,2}/[0-9]{1,2}\]`
	node   = `topology/pod-[0-9]{1,4}/node-[0-9]{1,4}`
)

// pattern is a rule for a string: an expression and, where an expression accepts invalid values, a parser as well.
type pattern struct {
	expr    *regexp.Regexp
	parse   func(string) bool // nil: the expression is sufficient
	doc     string
	example string
}

func (p pattern) match(text string) bool {
	return p.expr.MatchString(text) && (p.parse == nil || p.parse(text))
}

// patterns are the rules by the name that declarations use. They apply to empty strings, too, so those of optional
// fields accept them.
var patterns = map[string]pattern{
	"NAME":   {expr: regexp.MustCompile(`^` + name + `$`), doc: "labels of letters, digits and inner hyphens, joined by dots", example: "web-1"},
	"NAME_":  {expr: regexp.MustCompile(`^` + wide + `(\.` + wide + `)*$`), doc: "labels of letters, digits, underscores and inner hyphens, joined by dots", example: "gold_1"},
	"NAME0":  {expr: regexp.MustCompile(`^(` + label + `\.)*(` + label + `)?$`), doc: "empty, or labels joined by dots", example: "web-1"},
	"NAMES0": {expr: regexp.MustCompile(`^(` + label + `(,` + label + `)*)?$`), doc: "empty, or labels joined by commas", example: "shop,shop-test"},
	"TAG0":   {expr: regexp.MustCompile(`^(` + name + `)?$`), doc: "empty, or labels joined by dots", example: "web.blue"},
	"IPOPT":  {expr: regexp.MustCompile(`^(` + ip4 + `)?$`), doc: "empty, or an IPv4 address", example: "10.1.2.254"},
	"SUBNET": {expr: regexp.MustCompile(`^` + ip4 + `(-` + ip4 + `)?/` + length + `$`), doc: "address/length or first-last/length", example: "10.1.2.0/24"},
	"POOL":   {expr: regexp.MustCompile(`^$|^` + ip4 + `(-` + ip4 + `)?$`), doc: "empty, an IPv4 address, or first-last", example: "10.1.2.10-10.1.2.20"},
	"RULEIP": {expr: regexp.MustCompile(`^(` + ip4 + `(/(` + length + `|32|0))?|` + ip6 + `(/(` + len6 + `|128|0))?)?$`), parse: optional(isAddressOrPrefix),
		doc: "empty, an IPv4 or IPv6 address, or address/length, of which 0.0.0.0/0 and ::/0 are all", example: "10.1.2.0/24"},
	"RTRIP":    {expr: regexp.MustCompile(`^` + ip4 + `(-` + octet + `)?/` + length + `$`), doc: "IPv4 address/length", example: "10.1.2.3/24"},
	"PVT16":    {expr: regexp.MustCompile(`^` + ip4 + `/16$`), doc: "IPv4 address/16", example: "172.19.0.0/16"},
	"V6GW":     {expr: regexp.MustCompile(`^(` + ip6 + `)?$`), parse: optional(isIPv6), doc: "empty, or an IPv6 address", example: "2001:db8::1"},
	"V6AUTO":   {expr: regexp.MustCompile(`^(auto|` + ip6 + `)?$`), parse: func(text string) bool { return text == "auto" || optional(isIPv6)(text) }, doc: "empty, auto, or an IPv6 address", example: "2001:db8::80"},
	"V6NET":    {expr: regexp.MustCompile(`^(` + ip6 + `/` + len6 + `)?$`), parse: optional(isIPv6Prefix), doc: "empty, or IPv6 address/length", example: "2001:db8::/64"},
	"RATE":     {expr: regexp.MustCompile(`^([1-9][0-9]* ?[kmgKMG](b|bps)?)?$`), doc: "empty, or a number and k, m or g, as such or with b or bps", example: "10 Mbps"},
	"PROTOCOL": {expr: regexp.MustCompile(`^(tcp|udp|icmp|[0-9]{1,3})?$`), parse: isProtocol, doc: "empty, tcp, udp, icmp, or 0 to 255", example: "tcp"},
	"VLANS":    {expr: regexp.MustCompile(`^[0-9]{1,4}-[0-9]{1,4}$`), doc: "min-max", example: "1-4094"},
	"VXLANS":   {expr: regexp.MustCompile(`^[0-9]{1,8}-[0-9]{1,8}$`), doc: "min-max", example: "1-10000"},
	"TAGS0":    {expr: regexp.MustCompile(`^([0-9]{1,8}(-[0-9]{1,8})?(,[0-9]{1,8}(-[0-9]{1,8})?)*)?$`), doc: "empty, or numbers and min-max joined by commas", example: "100,200-299"},
	"PATHBIND": {expr: regexp.MustCompile(`^(` + path + `(,` + path + `)*)?$`), doc: "empty, or fabric ports joined by commas", example: "topology/pod-1/paths-101/pathep-[eth1/14]"},
	"NODEBIND": {expr: regexp.MustCompile(`^(` + node + `(,` + node + `)*)?$`), doc: "empty, or fabric nodes joined by commas", example: "topology/pod-1/node-101"},
}

func optional(parse func(string) bool) func(string) bool {
	return func(text string) bool { return text == "" || parse(text) }
}

func isIPv6(text string) bool {
	addr, err := netip.ParseAddr(text)
	return err == nil && addr.Is6()
}

func isIPv6Prefix(text string) bool {
	addr, _, _ := strings.Cut(text, "/")
	return isIPv6(addr)
}

// isAddressOrPrefix also refuses 10.1.2.0/0, which looks like a subnet but means all addresses.
func isAddressOrPrefix(text string) bool {
	text, length, _ := strings.Cut(text, "/")
	addr, err := netip.ParseAddr(text)
	return err == nil && (length != "0" || addr.IsUnspecified())
}

func isProtocol(text string) bool {
	_, ok := ProtocolNumber(text)
	return ok
}
