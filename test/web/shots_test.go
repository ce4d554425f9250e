package web

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// maxShot is the maximum size of a screenshot in bytes.
const maxShot = 100_000

// shoot writes a screenshot in both themes for the documentation, if that is wanted.
func (b *tab) shoot(name string) {
	b.t.Helper()
	if *shots == "" {
		return
	}
	b.do(chromedp.EmulateViewport(1200, 675))
	defer b.do(emulation.ClearDeviceMetricsOverride())
	for _, theme := range []string{"light", "dark"} {
		b.theme(theme)
		// The charts are drawn again after both changes, in an effect and the frame after it.
		eval[bool](b, "new Promise(r => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(() => r(true))), 300))")
		var shot []byte
		b.do(chromedp.ActionFunc(func(ctx context.Context) (err error) {
			shot, err = page.CaptureScreenshot().Do(ctx)
			return err
		}))
		shot, err := smaller(shot)
		if err == nil && len(shot) > maxShot {
			err = fmt.Errorf("the screenshot %s-%s has %d bytes; at most %d are wanted", name, theme, len(shot), maxShot)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(*shots, name+"-"+theme+".png"), shot, 0o644)
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
	b.theme("light")
}

// smaller returns a screenshot with its 256 most frequent colours, so that it compresses better.
func smaller(shot []byte) ([]byte, error) {
	from, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		return nil, err
	}
	bounds := from.Bounds()
	counts := map[color.NRGBA]int{}
	// rough drops the two lowest bits, by which the shades of a letter's edge differ.
	rough := func(x, y int) color.NRGBA {
		c := color.NRGBAModel.Convert(from.At(x, y)).(color.NRGBA)
		return color.NRGBA{c.R | 3, c.G | 3, c.B | 3, 0xff}
	}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			counts[rough(x, y)]++
		}
	}
	frequent := slices.SortedFunc(maps.Keys(counts), func(a, b color.NRGBA) int {
		return cmp.Or(counts[b]-counts[a], cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
	var palette color.Palette
	for _, c := range frequent[:min(len(frequent), 256)] {
		palette = append(palette, c)
	}
	to := image.NewPaletted(bounds, palette)
	nearest := map[color.NRGBA]uint8{}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			c := rough(x, y)
			index, known := nearest[c]
			if !known {
				index = uint8(palette.Index(c))
				nearest[c] = index
			}
			to.SetColorIndex(x, y, index)
		}
	}
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	err = encoder.Encode(&out, to)
	return out.Bytes(), err
}
