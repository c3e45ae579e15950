package main

import (
	"bytes"
	"fmt"
	"html"
)

// bar is one line of a plot: a median with its range, or a text instead.
type bar struct {
	label   string
	value   spread
	instead string
	ours    bool
}

// The plot's measures, in pixels.
const (
	plotWidth  = 860
	labelWidth = 320
	barLeft    = labelWidth + 10
	barRight   = plotWidth - 140
	barHeight  = 16
	barPitch   = 24
	headHeight = 34
)

// plot draws the storms in which everything just fits, in SVG.
func (r results) plot() []byte {
	var failed, slower []bar
	for _, s := range r.settings() {
		if s.withoutVolumes || s.fill != full {
			continue
		}
		label := fmt.Sprintf("%d × %d, %s", s.nodes, s.pods, s.who())
		b := bar{label: label, value: r.storms[s].failedCreates(), ours: s.tracking == "local"}
		failed = append(failed, b)
		ratio, known := r.timeRatio(s)
		b.value = ratio
		if !known {
			b.instead = fmt.Sprintf("%s pods never bound", r.storms[s].unbound().text(0))
		}
		if s.turns == 0 {
			slower = append(slower, b)
		}
	}
	height := 2*headHeight + barPitch*(len(failed)+len(slower)) + 20
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n",
		plotWidth, height, plotWidth, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", plotWidth, height)
	y := panel(&b, 0, "CreateVolume calls that found no room: median and range", failed, 0)
	panel(&b, y, "Time until all pods were bound, against the same pods without volumes", slower, 2)
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// panel draws bars under a title and returns where the next one begins.
func panel(b *bytes.Buffer, y int, title string, bars []bar, decimals int) int {
	fmt.Fprintf(b, `<text x="10" y="%d" font-weight="bold">%s</text>`+"\n", y+22, html.EscapeString(title))
	y += headHeight
	most := 0.0
	for _, v := range bars {
		most = max(most, v.value.most)
	}
	at := func(value float64) float64 {
		if most == 0 {
			return barLeft
		}
		return barLeft + value/most*(barRight-barLeft)
	}
	for _, v := range bars {
		middle, colour := y+barHeight/2, "#b8b8b8"
		if v.ours {
			colour = "#1f77b4"
		}
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", labelWidth, middle+4, html.EscapeString(v.label))
		text, textAt := v.instead, float64(barLeft)
		if text == "" {
			text, textAt = v.value.text(decimals), at(v.value.most)
			fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n", barLeft, y, at(v.value.median)-barLeft, barHeight, colour)
			fmt.Fprintf(b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#000000"/>`+"\n", at(v.value.least), middle, at(v.value.most), middle)
		}
		fmt.Fprintf(b, `<text x="%.1f" y="%d">%s</text>`+"\n", textAt+6, middle+4, html.EscapeString(text))
		y += barPitch
	}
	return y
}
