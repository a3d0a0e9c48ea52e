package release

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/testkit"
)

// A check for vulnerabilities without a database has checked nothing, reports that, and fails.
func TestACheckWithoutADatabaseSaysThatItHasNotRun(t *testing.T) {
	refuses := httptest.NewServer(http.NotFoundHandler())
	defer refuses.Close()
	bin := t.TempDir()
	for name, database := range map[string]string{
		"nobody listens":        "http://" + testkit.FreeAddress(),
		"it has something else": refuses.URL,
		"a folder that is not":  "file://" + filepath.Join(t.TempDir(), "none"),
		"an empty folder":       "file://" + t.TempDir(),
	} {
		cmd := exec.Command("sh", "scripts/vulncheck.sh", bin)
		cmd.Dir = filepath.Join("..", "..")
		cmd.Env = append(os.Environ(), "VULNDB="+database)
		var out, errOut bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errOut
		err := cmd.Run()
		if code := cmd.ProcessState.ExitCode(); err == nil || code <= 0 || code == 3 {
			t.Errorf("%s: exit %d, %v", name, code, err)
		}
		if !strings.Contains(errOut.String(), "vulncheck: NOT RUN: ") || strings.Contains(out.String()+errOut.String(), "none known") {
			t.Errorf("%s: it says\n%s%s", name, &out, &errOut)
		}
	}
}
