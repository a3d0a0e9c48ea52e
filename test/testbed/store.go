package testbed

import (
	"fmt"
	"path/filepath"

	"github.com/contiv/netplugin/utils/tlsfiles"
)

// The members of the store that netmasters embed speak TLS in a secure bed, and let in who has a certificate of a
// netmaster. Tests that go behind the daemons' back use that of the node's own.

// storeScheme is how the members of the store are spoken with.
func (b *Bed) storeScheme() string {
	if !b.secure {
		return "http"
	}
	return "https"
}

// StoreURL is where the node's member of the store serves clients.
func (n *Node) StoreURL() string { return n.bed.storeScheme() + "://" + n.At(2379) }

// peerURL is where it listens to the other members.
func (n *Node) peerURL() string { return n.bed.storeScheme() + "://" + n.At(2380) }

// StoreFiles are what a client on the node shows the store; the zero value where it is plain.
func (n *Node) StoreFiles() tlsfiles.Files {
	if !n.bed.secure {
		return tlsfiles.Files{}
	}
	dir := "/var/lib/contiv/pki"
	if n.bed.confined {
		dir = "/var/lib/contiv/netmaster/pki"
	}
	return tlsfiles.Files{CA: filepath.Join(dir, "store-ca.crt"), Cert: filepath.Join(dir, "store.crt"), Key: filepath.Join(dir, "store.key")}
}

// StoreFilesOutside are the same files for a process that is not on the node.
func (n *Node) StoreFilesOutside() tlsfiles.Files {
	files := n.StoreFiles()
	for _, path := range []*string{&files.CA, &files.Cert, &files.Key} {
		if *path != "" {
			*path = filepath.Join(fmt.Sprintf("/proc/%d/root", n.pid), *path)
		}
	}
	return files
}
