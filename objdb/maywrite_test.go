package objdb

import (
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/utils/fault"
)

// A user whose role was narrowed to reading is found out without a write.
func TestWhoMayNotWriteIsTold(t *testing.T) {
	p := testetcd.NewProcess(t)
	enableUsers(t, open(t, Config{Endpoints: []string{p.URL}}))
	admin := open(t, Config{Endpoints: []string{p.URL}, User: "root", Password: "secret"})
	client, err := admin.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	grant := func(prefix string, right clientv3.PermissionType) {
		t.Helper()
		if _, err := client.RoleGrantPermission(t.Context(), "contiv", prefix, PrefixEnd(prefix), right); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.UserAdd(t.Context(), "contiv", "secret"); err != nil {
		t.Fatal(err)
	}
	if _, err := client.RoleAdd(t.Context(), "contiv"); err != nil {
		t.Fatal(err)
	}
	if _, err := client.UserGrantRole(t.Context(), "contiv", "contiv"); err != nil {
		t.Fatal(err)
	}
	grant("/contiv.io/", clientv3.PermissionType(clientv3.PermRead))
	db := open(t, Config{Endpoints: []string{p.URL}, User: "contiv", Password: "secret"})
	roots := []string{"/contiv.io/state/", "/contiv.io/oper/"}
	_, before, err := db.List(t.Context(), "/contiv.io/")
	if err != nil {
		t.Fatal(err)
	}
	if err := db.MayWrite(t.Context(), roots...); !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("who may only read: %v", err)
	}
	grant("/contiv.io/state/", clientv3.PermissionType(clientv3.PermReadWrite))
	if err := db.MayWrite(t.Context(), roots...); !fault.Is(err, fault.Denied) {
		t.Errorf("who may write one of two: %v", err)
	}
	grant("/contiv.io/oper/", clientv3.PermissionType(clientv3.PermReadWrite))
	if err := db.MayWrite(t.Context(), roots...); err != nil {
		t.Errorf("who may write both: %v", err)
	}
	if kvs, after, err := db.List(t.Context(), "/contiv.io/"); err != nil || len(kvs) != 0 || after != before {
		t.Errorf("revision %d, then %d, with %d keys: %v", before, after, len(kvs), err)
	}
}

// A store without users has no rights.
func TestWithoutUsersEverybodyMayWrite(t *testing.T) {
	db := newDB(t)
	if err := db.MayWrite(t.Context(), "/contiv.io/state/"); err != nil {
		t.Error(err)
	}
}
