package agent

import (
	"fmt"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/mirror"
)

// A missing record means a deleted pod only while the store is followed and has lost no records.
func TestThatAPodHasNoRecordIsKnownFromACompleteStoreOnly(t *testing.T) {
	store := newEtcd(t).start()
	pod, gone := mastercfg.K8sPodKey(me, "u1"), mastercfg.K8sPodKey(me, "u2")
	a := startAgent(t, store.db, newRecorder(), func(c *Config) { c.RewindGrace = time.Millisecond })
	says := func(what string, uid string, there, complete bool) {
		t.Helper()
		eventually(t, what, func() error {
			record, isThere, isComplete := a.Recorded(uid)
			if isThere != there || isComplete != complete || there && record.Grace != 30 {
				return fmt.Errorf("pod %s: %+v, there %v, complete %v", uid, record, isThere, isComplete)
			}
			return nil
		})
	}
	says("no netmaster has set up the store", "u1", false, false)
	store.put(append(blueState, pod, `{"uid":"u1","grace":30}`, gone, `{"uid":"u2","grace":30}`)...)
	says("a pod is there", "u1", true, true)
	store.put(vtepKey("192.0.2.1"), vtepValue(me, "192.0.2.1")) // the agent follows the store before it is registered
	store.del(gone)
	says("a pod is deleted", "u2", false, true)
	store.put(gone, `{"uid":"u2","grace":30}`)
	says("it is there again", "u2", true, true)
	store.put(gone, `{"uid":2,"grace":30}`)
	eventually(t, "a record that cannot be read is there", func() error {
		if record, there, complete := a.Recorded("u2"); !there || !complete || record.Grace != 0 || record.Reason == "" {
			return fmt.Errorf("%+v, there %v, complete %v", record, there, complete)
		}
		return nil
	})
	a.takeIn(a.mirrors[0], mirror.Batch{Revision: 1, Another: true, Events: []mirror.Event{{Key: gone}}})
	says("a store that went back has lost it", "u2", false, false)
	says("the others are there", "u1", true, false)
	store.stop()
	says("the store is away", "u1", true, false)
}
