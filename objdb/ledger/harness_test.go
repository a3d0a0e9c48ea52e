package ledger

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
)

const lock = "netmaster/leader"

func TestMain(m *testing.M) {
	os.Exit(testetcd.Main(m, map[string]func([]string) error{"writer": writeMany}))
}

func campaign(t testing.TB, db *objdb.DB, who string, ttl time.Duration) *objdb.Term {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	term, err := db.Campaign(ctx, objdb.CampaignConfig{Lock: lock, Value: who, TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return term
}

func resign(t testing.TB, term *objdb.Term) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := term.Resign(ctx); err != nil {
		t.Error(err)
	}
}
