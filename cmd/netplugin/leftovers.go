package main

import (
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/drivers/uplink"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/pending"
	"github.com/contiv/netplugin/netplugin/border"
	"github.com/contiv/netplugin/netplugin/hostaccess"
	"github.com/contiv/netplugin/utils/durable"
)

// writtenTo returns the directories in which netplugin, and contivk8s for it, write small files, except that of
// the attachments, which is cleaned when they are read.
func writtenTo(pkiDir string) []string {
	return []string{
		pending.Dir(cniwire.DefaultStateDir), hostaccess.DefaultStateDir, border.DefaultStateDir, uplink.DefaultStateDir,
		pkiDir, filepath.Dir(answersFile),
	}
}

// sweep removes temporary files of earlier processes that were killed while writing. Errors do not prevent the
// start.
func sweep(started time.Time, dirs []string, log *logrus.Entry) {
	if err := durable.SweepOld(started, dirs...); err != nil {
		log.WithError(err).Warn("what interrupted writers of files left stays there")
	}
}
