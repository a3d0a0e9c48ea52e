package history

import (
	"slices"
	"strings"
	"testing"
)

func TestAnAlarmOfAPanicTellsWhereItHappened(t *testing.T) {
	log := strings.Join([]string{
		"level=info msg=leading",
		"level=warning msg=\"repaired: a network\"",
		"panic: runtime error: invalid memory address or nil pointer dereference",
		"",
		"goroutine 473 [running]:",
		"go.etcd.io/bbolt.(*Tx).Bucket(...)",
	}, "\n")
	got := alarms(log)
	want := []string{`level=warning msg="repaired: a network"`,
		"panic: runtime error: invalid memory address or nil pointer dereference\n\ngoroutine 473 [running]:\ngo.etcd.io/bbolt.(*Tx).Bucket(...)"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
