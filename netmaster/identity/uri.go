package identity

import (
	"net/url"
	"strings"

	"github.com/contiv/netplugin/utils/fault"
)

// scheme is the URI scheme of identities in certificates.
const scheme = "contiv"

// URI returns the URI of a master, node or user in certificates of a cluster: contiv://<cluster>/<kind>/<name>.
func (i Identity) URI(cluster string) *url.URL {
	return &url.URL{Scheme: scheme, Host: cluster, Path: "/" + string(i.Kind) + "/" + i.Name}
}

// ParseURI parses the URI of a certificate, and returns its cluster. It accepts only the canonical form:
// escapes, a query, a port or a user are fault.Malformed.
func ParseURI(text string) (cluster string, who Identity, err error) {
	refused := fault.New(fault.Malformed, "%.300q: want %s://<cluster>/<master, node or user>/<name>", text, scheme)
	rest, ours := strings.CutPrefix(text, scheme+"://")
	parts := strings.Split(rest, "/")
	if !ours || len(parts) != 3 || !validCluster(parts[0]) || !ValidName(parts[2]) {
		return "", Identity{}, refused
	}
	switch kind := Kind(parts[1]); kind {
	case Master, Node, User:
		return parts[0], Identity{Kind: kind, Name: parts[2]}, nil
	}
	return "", Identity{}, refused
}
