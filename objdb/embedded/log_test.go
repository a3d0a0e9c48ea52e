package embedded

import (
	"errors"
	"strings"
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

// etcd repeats it with each message that it cannot send.
func TestAMemberOfAnotherClusterIsToldOnce(t *testing.T) {
	t.Parallel()
	to, told := testkit.Recorded()
	log := logger(to, func(error) {})
	for range 3 {
		for _, peer := range []string{"1", "2"} {
			log.Warn("request sent was ignored by remote peer due to cluster ID mismatch", zap.String("remote-peer-id", peer))
			log.Error("request sent was ignored due to cluster ID mismatch", zap.String("remote-peer-id", peer))
		}
		log.Warn("request cluster ID mismatch", zap.String("remote-peer-server-name", "1"))
		log.Warn("slow disk")
	}
	if got := strings.Count(told.String(), "restore all members from the same file"); got != 2 || strings.Contains(told.String(), "slow disk") {
		t.Errorf("told %d times: %s", got, told.String())
	}
}
