package podjoin

import (
	"context"
	"encoding/json"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/contiv/netplugin/utils/retry"
)

const (
	lookEvery  = time.Second      // check for changed CAs
	writeEvery = 10 * time.Minute // in case the ConfigMap was changed
	writeTime  = 10 * time.Second // for one request
	againAfter = 5 * time.Second  // after a failure
)

// Publish writes the CA certificates to the ConfigMap for pods, and again when they change, until ctx ends.
// authorities returns them as PEM; empty: none exist yet.
func (c Cluster) Publish(ctx context.Context, authorities func() string, log *logrus.Entry) {
	var written, said string
	var due time.Time
	for ; ctx.Err() == nil; retry.Pause(ctx, lookEvery) {
		now := authorities()
		if now == "" || now == written && time.Now().Before(due) {
			continue
		}
		switch err := c.write(ctx, now); {
		case err == nil:
			written, said, due = now, "", time.Now().Add(writeEvery)
		case ctx.Err() == nil:
			if err.Error() != said {
				said = err.Error()
				log.WithError(err).Errorf("pods that join do not find the authorities of netmasters in ConfigMap %s/%s, trying again; deploy/kubernetes/base has it, and the right to patch it",
					c.Namespace, ConfigMap)
			}
			retry.Pause(ctx, againAfter)
		}
	}
}

func (c Cluster) write(ctx context.Context, authorities string) error {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	patch, err := json.Marshal(map[string]any{"data": map[string]string{configMapKey: authorities}})
	if err != nil {
		return err
	}
	_, err = c.Client.CoreV1().ConfigMaps(c.Namespace).Patch(ctx, ConfigMap, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "contiv-netmaster"})
	return err
}
