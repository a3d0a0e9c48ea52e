package client

import (
	"reflect"
	"strings"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// The client has its own records of joining, since it imports nothing of netmaster: they
// agree with those that netmaster writes, field by field.
func TestRecordsOfJoiningAreThoseOfNetmaster(t *testing.T) {
	for _, c := range []struct {
		ours, theirs any
		without      string // what only netmaster knows
	}{
		{JoinToken{}, mastercfg.JoinToken{}, "digest"},
		{NewJoinToken{}, mastercfg.NewJoinToken{}, ""},
		{Joined{}, mastercfg.Joined{}, ""},
	} {
		ours, theirs := fields(c.ours), fields(c.theirs)
		delete(theirs, c.without)
		if !reflect.DeepEqual(ours, theirs) {
			t.Errorf("%T: %v\nnetmaster: %v", c.ours, ours, theirs)
		}
	}
	for ours, theirs := range map[string]string{
		joinTokensPath: mastercfg.JoinTokensPath, joinedPath(false): mastercfg.NodesPath, joinedPath(true): mastercfg.MastersPath,
	} {
		if ours != theirs {
			t.Errorf("path %s, netmaster has %s", ours, theirs)
		}
	}
}

// fields are the types of a record's fields by their names in JSON.
func fields(record any) map[string]reflect.Type {
	all := map[string]reflect.Type{}
	for field := range reflect.TypeOf(record).Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		all[name] = field.Type
	}
	return all
}
