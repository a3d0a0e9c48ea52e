package membership

import (
	"context"
	"os"
	"time"

	"github.com/contiv/netplugin/utils/retry"
)

// tokenCheck is how often it is looked whether there is another token, by the times of its file.
const tokenCheck = time.Second

// wait waits for the next try, and not longer once there is another token than the one in
// the file that was tried (nil: there was none).
func (m *Member) wait(ctx context.Context, pace *retry.Pacer, tried os.FileInfo) {
	next := time.NewTimer(pace.Next())
	defer next.Stop()
	look := time.NewTicker(tokenCheck)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			if now := m.tokenFile(); now != nil && (tried == nil || !os.SameFile(now, tried) || !now.ModTime().Equal(tried.ModTime())) {
				pace.Reset()
				return
			}
		case <-next.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// tokenFile describes the file with the token; nil: there is none.
func (m *Member) tokenFile() os.FileInfo {
	info, err := os.Stat(m.cfg.TokenFile)
	if err != nil {
		return nil
	}
	return info
}
