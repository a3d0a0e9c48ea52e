package objdb

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/objdb/internal/testetcd"
)

func TestMembersSayWhereTheyListen(t *testing.T) {
	db := newDB(t)
	urls, err := db.MemberURLs(t.Context())
	if err != nil || len(urls) != 2 || !strings.HasPrefix(urls[0], "http://127.0.0.1:") || !strings.HasPrefix(urls[1], "http://") {
		t.Errorf("got %q, %v: want a URL for clients and one for peers", urls, err)
	}
}

// A client with several endpoints works while one of them answers. Those that do not are reported nevertheless:
// one without a listener, and one that accepts connections and never answers.
func TestEndpointsThatDoNotAnswerAreNamed(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	urls := []string{testetcd.New(t), "http://" + gone.Addr().String(), "http://" + mute.Addr().String()}
	db := open(t, Config{Endpoints: urls})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if silent, _ := db.Silent(ctx); !slices.Equal(silent, urls[1:]) {
		t.Errorf("got %q, want %q", silent, urls[1:])
	}
}
