package upstream

import (
	"bytes"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/podstream/podstream/internal/podctl/web/plaintext"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
)

// maxLine is the maximum length of a line of a log in bytes. The rest is dropped.
const maxLine = 16 << 10

// lineSplitter makes lines of the pieces of a log, separately for both outputs. Each line begins with its time.
type lineSplitter struct{ outputs [2]partialLine }

type partialLine struct {
	text []byte
	cut  bool
}

// add adds a piece, and passes on each line that is whole.
func (s *lineSplitter) add(piece []byte, stderr bool, take func(*podwebv1.LogLine)) {
	p := &s.outputs[0]
	if stderr {
		p = &s.outputs[1]
	}
	for {
		line, rest, whole := bytes.Cut(piece, []byte("\n"))
		const timeLength = 64
		room := max(maxLine+timeLength-len(p.text), 0)
		if len(line) > room {
			line, p.cut = line[:room], true
		}
		p.text = append(p.text, line...)
		if !whole {
			return
		}
		p.end(stderr, take)
		piece = rest
	}
}

// end passes on what came without a line end.
func (s *lineSplitter) end(take func(*podwebv1.LogLine)) {
	for i := range s.outputs {
		if p := &s.outputs[i]; len(p.text) > 0 {
			p.end(i == 1, take)
		}
	}
}

func (p *partialLine) end(stderr bool, take func(*podwebv1.LogLine)) {
	out := &podwebv1.LogLine{Stderr: stderr, Cut: p.cut}
	text := strings.TrimSuffix(string(p.text), "\r")
	if stamp, rest, ok := strings.Cut(text, " "); ok {
		if at, err := time.Parse(time.RFC3339Nano, stamp); err == nil {
			out.Time, text = timestamppb.New(at), rest
		}
	}
	// Tabs stay: a log is often a table.
	harmless, cut := plaintext.Lines(text, maxLine, 1)
	out.Text, out.Cut = harmless, out.Cut || cut
	p.text, p.cut = p.text[:0], false
	take(out)
}
