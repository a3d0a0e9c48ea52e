package durable

import (
	"fmt"
	"os"
	"strings"
)

// Boot returns the id of this boot of the machine: recorded state of the kernel is valid for one boot only.
func Boot() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("id of this boot: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}
