package membership

import (
	"context"
	"os"
	"time"

	"github.com/contiv/netplugin/utils/retry"
)

// tokenCheck is the interval of checks for another token, by the times of its file.
const tokenCheck = time.Second

// wait waits for the next attempt, at most until there is another token than in the file that was tried (nil:
// there was none).
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

// tokenFile returns the description of the token's file; nil if there is none.
func (m *Member) tokenFile() os.FileInfo {
	info, err := os.Stat(m.cfg.TokenFile)
	if err != nil {
		return nil
	}
	return info
}
