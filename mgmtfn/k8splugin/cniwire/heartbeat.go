package cniwire

import (
	"os"
	"time"
)

// Heartbeat is a file beside the server's socket that a server of Kubernetes touches while
// containers can be attached, or attached ones are served as before. It is gone after a reboot.
func Heartbeat(socket string) string { return socket + ".alive" }

// Grace is how long a node may be without a server, as while that is replaced, until STATUS fails.
// Kubernetes then takes the node for not ready, with all of its pods.
const Grace = time.Minute

// Beats tells whether the heartbeat was touched lately. One of the future is of before the clock was put back, and says nothing.
func Beats(socket string, lately time.Duration) bool {
	file, err := os.Stat(Heartbeat(socket))
	return err == nil && time.Since(file.ModTime()).Abs() < lately
}

// HasBeaten tells whether containers could be attached at any time since the boot.
func HasBeaten(socket string) bool {
	_, err := os.Stat(Heartbeat(socket))
	return err == nil
}
