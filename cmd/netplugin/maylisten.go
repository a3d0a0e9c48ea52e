package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/utils/fault"
)

// mayListen returns an error if the port of the REST server is taken, as it is where another netplugin runs: asked before
// the process changes anything on the node. The port is not kept, since requests would wait until the server is there.
// present is the lock of this process.
func mayListen(ctx context.Context, address string, present *os.File) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	switch {
	case err == nil:
		return l.Close()
	case !errors.Is(err, unix.EADDRINUSE):
		return fmt.Errorf("node REST server: %w", err)
	case !isShared(present):
		return fmt.Errorf("node REST server: another program than netplugin has the port: %w", err)
	}
	others := ""
	if pids := holders(present); len(pids) > 0 {
		others = " (process " + strings.Join(pids, ", ") + ")"
	}
	return fault.New(fault.Conflict, "another netplugin runs on this node%s, nothing was changed: %w", others, err)
}

// isShared reports whether others have the lock of a running netplugin, too. It may give this one's up.
func isShared(present *os.File) bool {
	return errors.Is(unix.Flock(int(present.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// holders returns the other processes with a lock on a file, as far as this process sees them: in a container it may
// not.
func holders(file *os.File) (pids []string) {
	var at unix.Stat_t
	locks, err := os.ReadFile("/proc/locks")
	if err != nil || unix.Fstat(int(file.Fd()), &at) != nil {
		return nil
	}
	id := fmt.Sprintf("%02x:%02x:%d", unix.Major(at.Dev), unix.Minor(at.Dev), at.Ino)
	own := strconv.Itoa(os.Getpid())
	for line := range strings.Lines(string(locks)) { // 1: FLOCK ADVISORY READ PID DEVICE:INODE 0 EOF
		fields := strings.Fields(line)
		if len(fields) > 5 && fields[1] == "FLOCK" && fields[5] == id && fields[4] != own {
			pids = append(pids, fields[4])
		}
	}
	return pids
}
