package cniwire

import (
	"os"
	"time"
)

// Heartbeat returns the file, beside the server's socket, that the server touches under Kubernetes while
// containers can be attached, or attached ones are served as before. It does not survive a reboot.
func Heartbeat(socket string) string { return socket + ".alive" }

// Grace is how long a node may be without a server, as during its replacement, before STATUS fails. Kubernetes
// then marks the node and all of its pods as not ready.
const Grace = time.Minute

// Beats reports whether the heartbeat was touched within lately. A time in the future, from before the clock was
// set back, does not count.
func Beats(socket string, lately time.Duration) bool {
	file, err := os.Stat(Heartbeat(socket))
	return err == nil && time.Since(file.ModTime()).Abs() < lately
}

// HasBeaten reports whether containers could be attached at any time since the boot.
func HasBeaten(socket string) bool {
	_, err := os.Stat(Heartbeat(socket))
	return err == nil
}
