package embedded

import (
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

// otherCluster is in etcd's messages about a member of a cluster with another id at the URL of a member.
const otherCluster = "cluster ID mismatch"

// strangersEvery is how often they are told: etcd tries to reach each of them some ten times a second.
const strangersEvery = time.Minute

// strangers tells of members that are not of this cluster, such as members restored from another backup.
type strangers struct {
	mu   sync.Mutex
	told map[any]time.Time // by peer
}

// tell writes a warning, unless it has done so for this peer within strangersEvery. What a peer has sent does not say
// which one it is, and what is sent to it says so as well.
func (s *strangers) tell(to *logrus.Entry, fields logrus.Fields) {
	peer, known := fields["remote-peer-id"]
	if !known {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.told[peer]) < strangersEvery {
		return
	}
	if s.told == nil {
		s.told = map[any]time.Time{}
	}
	s.told[peer] = time.Now()
	to.WithField("member", peer).Error("another member of the store is not of this one's cluster, and they ignore each other: " +
		"it was restored from another backup, or only one of them was; restore all members from the same file, or remove this one and add it again without data")
}
