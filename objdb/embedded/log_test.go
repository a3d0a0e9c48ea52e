package embedded

import (
	"errors"
	"testing"

	"go.uber.org/zap"

	"github.com/contiv/netplugin/test/testkit"
)

func TestWhatEndsTheMemberIsToldWithItsCause(t *testing.T) {
	t.Parallel()
	for want, fields := range map[string][]zap.Field{
		"failed to commit tx: write db: no space left on device": {zap.Error(errors.New("write db: no space left on device"))},
		"failed to commit tx": {zap.String("path", "db")},
	} {
		told := make(chan error, 1)
		go logger(testkit.Quiet(), func(err error) { told <- err }).Fatal("failed to commit tx", fields...)
		if got := <-told; got.Error() != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
