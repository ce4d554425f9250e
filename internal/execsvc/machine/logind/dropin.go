package logind

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
)

// dropIn is the kubelet's drop-in for logind.
const dropIn = "99-kubelet.conf"

// SetMaxDelay writes a drop-in that sets MaxDelay, in whole seconds. Reload puts it into use.
func (c *Conn) SetMaxDelay(delay time.Duration) error {
	if err := os.MkdirAll(c.cfg.DropInDir, 0o755); err != nil {
		return fmt.Errorf("set logind's longest delay: %w", err)
	}
	text := fmt.Sprintf("# Written by podexecd, for the graceful shutdown of the node (shutdownGracePeriod).\n[Login]\nInhibitDelayMaxSec=%d\n",
		(delay+time.Second-1)/time.Second)
	if err := renameio.WriteFile(filepath.Join(c.cfg.DropInDir, dropIn), []byte(text), 0o644); err != nil {
		return fmt.Errorf("set logind's longest delay: %w", err)
	}
	return nil
}
