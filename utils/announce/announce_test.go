package announce_test

import (
	"context"
	"encoding/hex"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contiv/netplugin/utils/announce"
)

func TestFramesSayWhoHasAnAddress(t *testing.T) {
	mac := [6]byte{2, 2, 10, 1, 7, 2}
	for _, test := range []struct {
		name   string
		sender announce.Sender
		own    string
		want   string
	}{
		{"IPv4", announce.Sender{MAC: mac}, "10.1.7.2",
			"ffffffffffff02020a010702080600010800060400" + "0102020a0107020a010702" + "0000000000000a010702" + "000000000000000000000000000000000000"},
		{"IPv6", announce.Sender{MAC: mac}, "fd00:7::2",
			"33330000000102020a01070286dd6000000000203aff" + "fd000007000000000000000000000002" + "ff020000000000000000000000000001" +
				"8800" + "4987" + "20000000" + "fd000007000000000000000000000002" + "020102020a010702"},
		{"IPv6 of a router", announce.Sender{MAC: mac, Router: true}, "fd00:7::2",
			"33330000000102020a01070286dd6000000000203aff" + "fd000007000000000000000000000002" + "ff020000000000000000000000000001" +
				"8800" + "c986" + "a0000000" + "fd000007000000000000000000000002" + "020102020a010702"},
	} {
		if have := hex.EncodeToString(test.sender.Frame(netip.MustParseAddr(test.own))); have != test.want {
			t.Errorf("%s: %s, want %s", test.name, have, test.want)
		}
	}
}

func TestAChangeBeginsTheRoundsAnew(t *testing.T) { synctest.Test(t, anew) }

func anew(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	changed, ended := make(chan struct{}), make(chan error, 1)
	began, times := time.Now(), []time.Duration{}
	go func() {
		ended <- announce.InRounds(ctx, changed, func(context.Context) { times = append(times, time.Since(began)) })
	}()
	time.Sleep(time.Minute) // of the bubble; nothing has changed
	began = time.Now()
	changed <- struct{}{}
	time.Sleep(2 * time.Second)
	changed <- struct{}{}
	time.Sleep(time.Hour)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	want := announce.Rounds[:2:2]
	for _, after := range announce.Rounds {
		want = append(want, after+2*time.Second)
	}
	if !slices.Equal(times, want) {
		t.Errorf("announced after %s, want %s", times, want)
	}
}
