package stream

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// FormatCursor is a cursor as a text that people pass on and stores keep: INSTANCE/REVISION/VIEW. Slashes and signs within a part
// are percent-encoded. Nil is the empty text.
func FormatCursor(c *podconfigv1.Cursor) string {
	if c == nil {
		return ""
	}
	return url.PathEscape(c.GetInstanceId()) + "/" + strconv.FormatUint(c.GetRevision(), 10) + "/" + url.PathEscape(c.GetView())
}

// ParseCursor reads what FormatCursor writes: of the empty text, nil. It fails on any other text, and on one without an instance.
func ParseCursor(text string) (*podconfigv1.Cursor, error) {
	if text == "" {
		return nil, nil
	}
	parts := strings.Split(text, "/")
	if len(parts) != 3 || parts[0] == "" {
		return nil, fmt.Errorf("cursor %q: want INSTANCE/REVISION/VIEW", text)
	}
	instance, err := url.PathUnescape(parts[0])
	if err != nil {
		return nil, fmt.Errorf("cursor %q: its instance: %w", text, err)
	}
	revision, err := strconv.ParseUint(parts[1], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("cursor %q: its revision: %w", text, err)
	}
	view, err := url.PathUnescape(parts[2])
	if err != nil {
		return nil, fmt.Errorf("cursor %q: its view: %w", text, err)
	}
	return &podconfigv1.Cursor{InstanceId: instance, Revision: revision, View: view}, nil
}
