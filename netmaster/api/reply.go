package api

import (
	"io"
	"net/http"
	"strconv"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/jsonstream"
	"github.com/contiv/netplugin/netmaster/api/spool"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

const (
	// answersTotal is what answers may occupy together while their clients read.
	answersTotal = 64 << 20
	// answersOfOne is what those of one client may, where no other limit of its long answers is enforced (sharer).
	answersOfOne = answersTotal / 4
)

// answer is a handler that returns what to write instead of writing it.
type answer func(r *http.Request) (reply, error)

// reply is what a request that succeeded is told: a body as JSON, or a text, or one of the two last.
// A revision and an entity tag above 0 go into the header.
type reply struct {
	code     int // 0: 200; with 204 nothing else
	body     any // plainText, or what jsonstream writes
	revision int64
	tag      int64
	warning  string // for people, into the header

	// from makes the rest of the reply from a snapshot. What is read late is
	// read from the same one. It may be called twice.
	from   func(ledger.Reader) (reply, error)
	stream func(http.ResponseWriter) // writes the answer instead
}

// plainText is an answer that is no JSON.
type plainText string

// send answers a request with a reply. It fails, and has sent nothing, if that cannot be made.
func (a *API) send(w http.ResponseWriter, r *http.Request, said reply) error {
	if said.stream != nil {
		said.stream(w)
		return nil
	}
	final := said
	var place spool.Place // what has happened is told, however long that is, and whatever he may do by now who asked for it
	var client string
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	if reads {
		place, client = a.longAnswer(r.Context()), sharer(r)
	}
	whole, err := a.answers.Write(r.Context(), client, place, func(out io.Writer) error {
		if said.from == nil && !reads {
			return said.write(out)
		}
		return a.ledger.View(func(reader ledger.Reader) (err error) {
			if err := askingOf(r.Context()).still(reader); err != nil {
				return err
			}
			if said.from != nil {
				if final, err = said.from(reader); err != nil {
					return err
				}
			}
			return final.write(out)
		})
	})
	if err == nil {
		defer whole.Close()
	}
	if err = a.judged(r, err); err != nil {
		return err
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	if _, isText := final.body.(plainText); isText {
		header.Set("Content-Type", "text/plain; charset=utf-8")
	}
	if final.revision > 0 {
		header.Set(mastercfg.RevisionHeader, strconv.FormatInt(final.revision, 10))
	}
	if final.tag > 0 {
		header.Set("ETag", `"`+strconv.FormatInt(final.tag, 10)+`"`)
	}
	if final.warning != "" {
		header.Set(contivmodel.WarningHeader, contivmodel.FormatWarning(final.warning))
	}
	if final.code == http.StatusNoContent {
		w.WriteHeader(final.code)
		return nil
	}
	header.Set("Content-Length", strconv.FormatInt(whole.Size(), 10))
	if final.code != 0 {
		w.WriteHeader(final.code)
	}
	_, _ = whole.WriteTo(w) // an error means that the client is gone
	return nil
}

func (r reply) write(out io.Writer) error {
	if text, ok := r.body.(plainText); ok {
		_, err := io.WriteString(out, string(text)+"\n")
		return err
	}
	return jsonstream.Write(out, r.body)
}
