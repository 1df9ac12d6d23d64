/* SPDX-License-Identifier: Apache-2.0 */
/* The functions behind the table of render.c, which is how everybody else reaches them. */
#pragma once

#include "render/render.h"

render_function render_callgrind;
render_function render_collapsed;
render_function render_dot;
render_function render_flame;
render_function render_flame_data;
render_function render_gif;
render_function render_json;
render_function render_pdf;
render_function render_png;
render_function render_ps;
render_function render_svg;
render_function render_text;
render_function render_tree;
