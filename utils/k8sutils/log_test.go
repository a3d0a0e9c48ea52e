package k8sutils

import (
	"errors"
	"testing"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
	"k8s.io/klog/v2"
)

// Messages of the Kubernetes client are in our log: errors as warnings, with their fields, and the rest if its
// level is enabled.
func TestTheClientOfKubernetesWritesToOurLog(t *testing.T) {
	log, written := test.NewNullLogger()
	LogTo(log.WithField("component", "kubernetes"))
	t.Cleanup(klog.ClearLogger)
	klog.InfoS("reading")
	klog.ErrorS(errors.New("connection refused"), "Failed to watch", "type", "*v1.Pod")
	all := written.AllEntries()
	if len(all) != 1 || all[0].Level != logrus.WarnLevel || all[0].Message != "Failed to watch" || all[0].Data["type"] != "*v1.Pod" ||
		all[0].Data["component"] != "kubernetes" || all[0].Data[logrus.ErrorKey].(error).Error() != "connection refused" {
		t.Errorf("written: %+v", all)
	}
	log.SetLevel(logrus.DebugLevel)
	klog.InfoS("reading")
	if last := written.LastEntry(); last.Level != logrus.DebugLevel || last.Message != "reading" {
		t.Errorf("with debugging on: %+v", last)
	}
}
