package k8s

import (
	"cmp"
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// After a restore of its store from a backup, the API server goes on with lower resource versions. It accepts
// a watch from a later version and sends nothing until it has reached that: informers would miss all changes, for as
// long as the cluster needs to make as many, and keep what the backup lacks. A list tells the present version.

const (
	restoredEvery  = 30 * time.Second // default interval of checks whether the API server was restored
	restoredAnswer = 10 * time.Second // time limit of an answer
)

// endRestored ends Run with the reason when the API server has gone back. Another controller begins with new lists.
func (c *Controller) endRestored(ctx context.Context, end context.CancelCauseFunc) {
	for pause(ctx, cmp.Or(c.cfg.RestoredEvery, restoredEvery)) == nil {
		if err := c.checkRestored(ctx); err != nil {
			end(err)
			return
		}
	}
}

// checkRestored returns an error if the API server has a lower resource version than the informer of pods has seen. Pods
// stand for all kinds: versions of different kinds cannot be compared, as each may be in a store of its own, and bookmarks
// bring that of pods to within some minutes of the present one. A backup that is newer may not be noticed.
// Lists without a version are of the present state, whichever of several API servers answers.
func (c *Controller) checkRestored(ctx context.Context) error {
	seen := c.informers.Core().V1().Pods().Informer().LastSyncResourceVersion() // before the list, which is later then
	ctx, cancel := context.WithTimeout(ctx, restoredAnswer)
	defer cancel()
	list, err := c.cfg.Client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil // asked again
	}
	if order, err := resourceversion.CompareResourceVersion(list.ResourceVersion, seen); err != nil || order >= 0 {
		return nil // not a number: no version was seen yet
	}
	return fmt.Errorf("kubernetes: the API server has gone back from resource version %s to %s, as by a restored backup: everything is listed again", seen, list.ResourceVersion)
}
