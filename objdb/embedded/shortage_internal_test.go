package embedded

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A member that may not open enough files has no damaged data, whatever etcd gives up with.
func TestAShortageOfFilesIsNoDamage(t *testing.T) {
	for text, short := range map[string]bool{
		"file descriptor limit of etcd process is too low; please set higher":      true,
		fmt.Sprintf("open /var/lib/contiv/etcd/member/wal/0.tmp: %v", unix.EMFILE): true,
		fmt.Sprintf("open /var/lib/contiv/etcd/member/snap/db: %v", unix.ENFILE):   true,
		"walpb: crc mismatch": false,
	} {
		got := damaged(errors.New(text)).Error()
		if strings.Contains(got, "damaged") == short || strings.Contains(got, "may not open more files") != short || !strings.HasPrefix(got, text+"; ") {
			t.Errorf("%s: %s", text, got)
		}
		if got := ofShortage(errors.New(text)).Error(); strings.Contains(got, "fs.file-max") != strings.Contains(text, unix.ENFILE.Error()) {
			t.Errorf("the remedy: %s", got)
		}
		if got := ofShortage(errors.New(text)).Error(); strings.Contains(got, "may not open more files") != short {
			t.Errorf("returned: %s", got)
		}
	}
}
