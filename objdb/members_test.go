package objdb

import (
	"strings"
	"testing"
)

func TestMembersSayWhereTheyListen(t *testing.T) {
	db := newDB(t)
	urls, err := db.MemberURLs(t.Context())
	if err != nil || len(urls) != 2 || !strings.HasPrefix(urls[0], "http://127.0.0.1:") || !strings.HasPrefix(urls[1], "http://") {
		t.Errorf("got %q, %v: want a URL for clients and one for peers", urls, err)
	}
}
