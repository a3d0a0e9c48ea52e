package durable

import (
	"fmt"
	"os"
	"strings"
)

// Boot is the id of this boot of the machine: what a file says of the kernel's state
// holds until the next one.
func Boot() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("id of this boot: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}
