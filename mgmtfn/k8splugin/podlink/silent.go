package podlink

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/contiv/netplugin/utils/fault"
)

// socketCount has the number of sockets in the network namespace of the calling thread, of all IP families.
const socketCount = "/proc/thread-self/net/sockstat"

// Silent reports whether the namespace with an identity that is at a path has no sockets. Processes may still be
// in it: they cannot be seen from another PID namespace.
func Silent(path, id string) (silent bool, err error) {
	n, err := Open(path)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	if n.id != id {
		return false, fault.New(fault.Conflict, "network namespace %s is another one by now", path)
	}
	var text []byte
	if err := n.run(func() (err error) { text, err = os.ReadFile(socketCount); return err }); err != nil {
		return false, fmt.Errorf("sockets in network namespace %s: %w", path, err)
	}
	var sockets int
	if _, err := fmt.Fscanf(bytes.NewReader(text), "sockets: used %d", &sockets); err != nil {
		return false, fmt.Errorf("sockets in network namespace %s: %q: %w", path, text, err)
	}
	return sockets == 0, nil
}
