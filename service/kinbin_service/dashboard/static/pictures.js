// Pictures that are dropped onto the page, as what a collection compares; nothing but the request leaves the browser.

const SIDE = 32;

// The reading that is chosen for each picture: the one that finds the nearer item.
export const FITS = "fits";

// How many levels of red, green and blue a vector of this dimension may count; 0: it is no cube.
export function colourLevels({ dim }) {
  const levels = Math.round(Math.cbrt(dim || 0));
  return levels >= 2 && levels ** 3 === dim ? levels : 0;
}

// A patch of the colour that a bin counts.
export function swatch(bin, levels) {
  const made = document.createElement("span");
  const shade = (level) => Math.round(((level + 0.5) * 256) / levels);
  const [red, green, blue] = [Math.floor(bin / levels ** 2), Math.floor(bin / levels) % levels, bin % levels].map(shade);
  made.className = "swatch";
  made.style.backgroundColor = `rgb(${red}, ${green}, ${blue})`;
  return made;
}

// How a picture may be read for vectors of a dimension: [word, text] pairs. Some dimensions are both squares and cubes, as 64.
export function readings(info) {
  if (info.items === "images") return [["image", "the picture itself"]];
  if (info.items !== "vectors" || !info.dim) return [];
  const levels = colourLevels(info);
  const side = Math.round(Math.sqrt(info.dim));
  const found = [];
  if (side ** 2 === info.dim && side >= 4) found.push([`grey ${side}`, `${side} × ${side} grey values, dark ink on a light ground`]);
  if (levels) found.push([`colours ${levels}`, `a colour histogram, ${levels} levels each of red, green, blue`]);
  return found.length > 1 ? [[FITS, "what finds the nearer item"], ...found] : found;
}

// The part of a query's body that stands for a picture.
export async function asQuery(file, reading) {
  if (reading === "image") return { image: await base64(file) };
  const [kind, number] = reading.split(" ");
  const bitmap = await createImageBitmap(file).catch(() => {
    throw new Error(`${file.name} is no picture that this browser reads.`);
  });
  const pixels = kind === "colours" ? drawn(bitmap, SIDE) : drawn(bitmap, Number(number));
  bitmap.close();
  return { vector: kind === "colours" ? histogram(pixels, Number(number)) : ink(pixels) };
}

function drawn(bitmap, side) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = side;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.imageSmoothingQuality = "high";
  context.fillStyle = "#fff";
  context.fillRect(0, 0, side, side);
  context.drawImage(bitmap, 0, 0, side, side);
  return context.getImageData(0, 0, side, side).data;
}

// Pixels counted by colour: bin (red · levels + green) · levels + blue, as the demo and scikit-image count them.
export function histogram(pixels, levels) {
  const counts = new Array(levels ** 3).fill(0);
  const level = (value) => Math.min(levels - 1, Math.floor((value * levels) / 256));
  for (let at = 0; at < pixels.length; at += 4) {
    counts[(level(pixels[at]) * levels + level(pixels[at + 1])) * levels + level(pixels[at + 2])] += 1;
  }
  return counts;
}

function ink(pixels) {
  const values = [];
  for (let at = 0; at < pixels.length; at += 4) {
    values.push(Math.round((255 - (0.299 * pixels[at] + 0.587 * pixels[at + 1] + 0.114 * pixels[at + 2])) / 16));
  }
  return values;
}

async function base64(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let at = 0; at < bytes.length; at += 32768) text += String.fromCharCode(...bytes.subarray(at, at + 32768));
  return btoa(text);
}

// A vector whose length is a square, as a picture of that many pixels, dark ink.
export function pixels(values) {
  const side = Math.round(Math.sqrt(values.length));
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = side;
  const context = canvas.getContext("2d");
  const image = context.createImageData(side, side);
  const most = Math.max(...values, 1e-12);
  values.forEach((value, at) => {
    const shade = 255 - Math.round((255 * Math.max(0, value)) / most);
    image.data.set([shade, shade, shade, 255], 4 * at);
  });
  context.putImageData(image, 0, 0);
  return canvas;
}
