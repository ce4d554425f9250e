package podctl

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/podstream/podstream/internal/podctl/podsummary"
	"github.com/podstream/podstream/internal/podctl/render"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// pullProgress shows how far one pull is: on a terminal as one line that changes, and otherwise as a line for each change.
// Nil: it isn't shown.
type pullProgress struct {
	out   io.Writer
	image string
	// width returns the terminal's width in characters. Nil: there is no terminal.
	width func() int
	// last is the text that was printed last.
	last string
}

func (t *tool) newPullProgress(image string) *pullProgress {
	return &pullProgress{out: t.Stderr, image: render.Escape(image), width: widthOf(t.Stderr)}
}

// widthOf returns the width of the terminal that out writes to. Nil: it is none.
func widthOf(out io.Writer) func() int {
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) { //nolint:gosec // A descriptor is small.
		return nil
	}
	return func() int {
		const usual = 80
		width, _, err := term.GetSize(int(file.Fd())) //nolint:gosec // A descriptor is small.
		if err != nil {
			return usual
		}
		return cmp.Or(width, usual)
	}
}

// show shows the state of the pull, unless it is what was shown last.
func (p *pullProgress) show(pull *podexecv1.ImagePull) {
	if p == nil {
		return
	}
	text := pullState(pull)
	if p.width == nil {
		text = "podctl: " + p.image + ": " + text
	} else {
		text = p.line(pull, text)
	}
	if text == p.last {
		return
	}
	p.last = text
	end := "\n"
	if p.width != nil {
		// To the beginning of the line, and delete what a longer one has left.
		text, end = "\r"+text, "\x1b[K"
	}
	// There is no other place to report that it can't be written.
	_, _ = io.WriteString(p.out, text+end)
}

// end ends the line on a terminal.
func (p *pullProgress) end() {
	if p != nil && p.width != nil && p.last != "" {
		_, _ = io.WriteString(p.out, "\n")
	}
}

// pullState returns the state of a pull in words.
func pullState(pull *podexecv1.ImagePull) string {
	progress := pull.GetProgress()
	switch text := podsummary.PullProgress(progress); {
	case pull.GetStartedTime() == nil:
		return "queued"
	case text == "":
		return "pulling"
	default:
		if percent, ok := podsummary.PullPercent(progress); ok {
			return fmt.Sprintf("%d%%, %s", percent, text)
		}
		return text
	}
}

// barWidth is the width of the bar in characters.
const barWidth = 30

// line returns the line on a terminal: the bar if the total is known, the image and the state. It is cut to the terminal's
// width.
func (p *pullProgress) line(pull *podexecv1.ImagePull, state string) string {
	text := p.image + ": " + state
	if percent, ok := podsummary.PullPercent(pull.GetProgress()); ok {
		done := percent * barWidth / 100
		text = "[" + strings.Repeat("=", done) + strings.Repeat(" ", barWidth-done) + "] " + state + " " + p.image
	}
	// The last column stays free: some terminals begin the next line there.
	if width := max(p.width()-1, 1); utf8.RuneCountInString(text) > width {
		text = string([]rune(text)[:width])
	}
	return text
}
